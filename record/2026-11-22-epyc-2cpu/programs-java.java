public class Big {
  static long fill(int n) { byte[] b = new byte[n]; long s = 0; for (int i = 0; i < n; i += 4096) { b[i] = 1; s += b[i]; } return s; }
  static long work(int turns) { long t = 0; for (int i = 0; i < turns; i++) t += fill(4 << 20); return t; }
  public static void main(String[] a) { System.out.println(work(200)); }
}
